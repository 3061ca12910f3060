"""Where does each head look?"""
