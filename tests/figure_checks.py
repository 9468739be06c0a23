"""What every figure must have: a label on each axis that shows numbers or names."""


def unlabelled(figure):
    """Return the axes of a figure that show ticks and no label; one for all panels of a figure is a label too."""
    figure.canvas.draw()
    missing = []
    for number, panel in enumerate(figure.axes):
        for name, axis in (("x", panel.xaxis), ("y", panel.yaxis)):
            told = axis.get_label_text() or getattr(figure, f"get_sup{name}label")()
            shown = panel.axison and axis.get_visible() and any(label.get_text() for label in seen(axis))
            if shown and not told.strip():
                missing.append(f"{name} of panel {number}")
    return missing


def seen(axis):
    """Return the tick labels that are drawn; those of the inner panels of a shared axis are not."""
    return [label for label in axis.get_ticklabels(which="both") if label.get_visible()]
