"""How much does each head, letter and neuron add to the logit?"""
