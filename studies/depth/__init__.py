"""Study: bounds over boxes of inputs of deeper models, beside enumeration and auto_LiRPA."""
