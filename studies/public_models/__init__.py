"""Study: how many inputs do public models get wrong, exactly?"""
