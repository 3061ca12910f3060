"""The trusted base: whatever may say *proved*. It needs numpy, flint and the standard library.

spec, positions     bytes of a checkpoint -> a closed description and its weights
language, table     which inputs there are, and their labels: a rule on counts, or a table
balls, spans        exact questions, and intervals of float64 rounded outwards
forward             the forward pass, in balls
boxes, counts       boxes of letter counts, and the keys that attention meets in them
sets, order         sets of paths of a table, and the same
means               the one bound of a mean
margins             output j minus output k over a region
float32, float_*    the same of the float32 program, in any order of its sums
replay, facts       a document and models -> what is proved
"""
