"""Nested tuples of tensors and other things, taken apart and put together."""

# Stands in an outline where a leaf was taken out.
_TAKEN = object()


def taken_apart(tree, wanted):
    """Takes some leaves out of a tree.

    Args:
        tree: Anything; tuples, named ones too, are branches.
        wanted: Function that tells whether a leaf is taken out.

    Returns:
        A tuple of the tree's outline and the list of those leaves.
    """
    leaves = []
    return _outline(tree, wanted, leaves), leaves


def _outline(tree, wanted, leaves):
    # No function in a function: one that calls itself holds itself, and so
    # the leaves, until garbage is collected.
    if isinstance(tree, tuple):
        return _like(tree, [_outline(x, wanted, leaves) for x in tree])
    if not wanted(tree):
        return tree
    leaves.append(tree)
    return _TAKEN


def put_together(outline, leaves):
    """Returns the tree of an outline, with others in the leaves' places.

    Args:
        outline: As `taken_apart` returns it.
        leaves: Sequence of what comes in their places.
    """
    return _filled(outline, iter(leaves))


def _filled(outline, leaves):
    if isinstance(outline, tuple):
        return _like(outline, [_filled(x, leaves) for x in outline])
    return next(leaves) if outline is _TAKEN else outline


def beside(outline, tree):
    """Returns the list of what a tree has in the leaves' places.

    Args:
        outline: As `taken_apart` returns it.
        tree: A tree like it, where `None` may stand for a whole branch.
    """
    if not isinstance(outline, tuple):
        return [tree] if outline is _TAKEN else []
    parts = [None] * len(outline) if tree is None else tree
    return [
        leaf
        for part, own in zip(outline, parts, strict=True)
        for leaf in beside(part, own)
    ]


def _like(tree, parts):
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
