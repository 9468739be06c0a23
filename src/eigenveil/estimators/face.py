"""What a notebook shows of an estimator: of a fit what was released, before it what scikit-learn shows."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..releases import Release


class Faced:
    """Base of estimators with a face of their own."""

    release_: "Release"

    def _html_repr(self) -> str:
        # scikit-learn asks for it, and heeds its own setting of what is displayed.
        if not hasattr(self, "release_"):
            return str(super()._html_repr())  # type: ignore[misc]
        from ..report.face import fit_face  # which nobody waits for who only fits

        return fit_face(type(self).__name__, self.release_)
