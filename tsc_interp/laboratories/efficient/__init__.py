"""What do cheaper forms of attention cost a classifier, and what is exact at no cost?"""
