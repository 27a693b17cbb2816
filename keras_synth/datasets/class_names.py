"""What the labels of each data set mean."""

# By loader or GLUE task: the name of label 0, of label 1, and so on.
CLASS_NAMES = {
    "imdb": ("negative", "positive"),
    "ag_news": ("World", "Sports", "Business", "Sci/Tech"),
    "rt_polarity": ("negative", "positive"),
    "CoLA": ("unacceptable", "acceptable"),
    "SST-2": ("negative", "positive"),
    "RTE": ("entailment", "not_entailment"),
    "MRPC": ("not_equivalent", "equivalent"),
    "generated_reviews": ("negative", "positive"),
    "generated_pairs": ("different", "same"),
}
