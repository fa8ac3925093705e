"""What people ask of `certify` besides the model, and how claims are checked on their behalf."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from lemmata.core.certificate import Certificate, Fit, Statement, budget, check
from lemmata.core.estimator import warn_interrupted
from lemmata.core.progress import Checking

# what only some can use -> what others say
REFUSALS = {
    "analogies": "a {} has no vectors of words; leave out analogies.",
    "properties": "properties are those of a torch.nn.Module; leave them out.",
    "X_test": "the claims about a {} take no X_test; see lemmata.trust.evaluate(model, X_test, y_test).",
    "y_test": "the claims about a {} take no y_test; see lemmata.trust.evaluate(model, X_test, y_test).",
}


@dataclass(frozen=True)
class Request:
    """The arguments of `lemmata.certify`."""

    X: Any = None
    y: Any = None
    sample_weight: Any = None
    loss: Any = None
    properties: Any = None
    X_test: Any = None
    y_test: Any = None
    analogies: Any = None
    seconds: float | None = None
    verbose: bool = False

    def need_data(self, model: Any) -> None:
        """Refuse to certify a model without its data."""
        if self.X is None:
            raise TypeError(
                f"certify({type(model).__name__}) lacks its data: pass certify(model, X), X what the model was fitted to."
            )

    def take(self, model: Any, known: Container[str] = ()) -> dict[str, Any]:
        """Return what was given of what only some can use; refuse what this model does not know."""
        given = {name: getattr(self, name) for name in REFUSALS if getattr(self, name) is not None}
        for name in given:
            if name not in known:
                raise ValueError(REFUSALS[name].format(type(model).__name__))
        return given

    def check(
        self,
        name: str,
        claims: Sequence[Statement],
        fit: Fit,
        title: str,
        cost: Callable[[Fit], float],
    ) -> Certificate:
        """Check claims within the time that was given, or a multiple of what the fit cost."""
        work = budget(cost, fit)
        with Checking(name, len(claims), show=None if self.verbose else False) as bar:
            found = check(
                claims, fit, title, work=work, seconds=self.seconds, usual=work, progress=bar
            )
        warn_interrupted(found)
        return found
