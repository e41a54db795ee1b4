"""Differential privacy of the sum: each client adds its share of discrete noise, and nobody knows all of it.

A client's share is Skellam noise, the difference of two Poisson variates. Sums of such are Skellam again, so the sum of
any list has the noise of as many shares as it has clients; the promise counts on the least number that a list may have.
The Skellam mechanism of variance μ is (α, ε)-RDP for whole α > 1 with (Agarwal, Kairouz and Liu, "The Skellam mechanism
for differentially private federated learning", 2021, Theorem 3.5)

    ε(α) = α Δ₂² / (2μ) + min(((2α − 1) Δ₂² + 6 Δ₁) / (4μ²), 3 Δ₁ / (2μ))

with Δ₁ and Δ₂ the norms of what one client adds, here in steps of the fixed point. From RDP to (ε, δ) it is Opacus's
accounting. What is protected is a client's whole part of the sum, against a part of zeros; that it took part is public.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

from fedol.errors import FedolError, InputError
from fedol.knowledge import Task
from fedol.knowledge.header import Guarantee
from fedol.secret.encoding import Encoding

ORDERS = (*range(2, 64), *range(64, 512, 16), *range(512, 8193, 512))
COVERS = (
    "the whole part of any one client in the sum, against a part of zeros, where at least {least} others add noise "
    "that they keep to themselves"
)


def divergence(order: int, l1: float, l2: float, variance: float) -> float:
    """The bound on the Rényi divergence of this order."""
    rest = min(((2 * order - 1) * l2**2 + 6 * l1) / (4 * variance**2), 3 * l1 / (2 * variance))
    return order * l2**2 / (2 * variance) + rest


def epsilon(encoding: Encoding, shares: int) -> float:
    """ε of a sum to which so many clients added their noise, at the task's δ."""
    try:
        from opacus.accountants.analysis.rdp import get_privacy_spent
    except ImportError:
        raise FedolError("Accounting for noise needs the package opacus: pip install 'fedol[privacy]'.") from None
    terms, steps = encoding.terms, encoding.scale
    l2 = terms.norm * steps + math.sqrt(encoding.size)  # a value is rounded by less than one step
    l1 = min(l2**2, l2 * math.sqrt(encoding.size))
    variance = shares * (terms.noise * steps) ** 2
    bounds = [divergence(order, l1, l2, variance) for order in ORDERS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the best order is the first: the theorem has none between 1 and 2
        found, _ = get_privacy_spent(orders=list(ORDERS), rdp=bounds, delta=terms.delta)
    return float(found)


def calibrated(task: Task, wanted: float, delta: float, norm: float) -> Task:
    """The task with the least noise at which each sum is (ε, δ)-private, found by bisection."""
    if task.secret is None or not (wanted > 0 and 0 < delta < 1 and norm > 0):
        raise InputError(
            "Noise needs helpers, a positive --dp-epsilon, --dp-delta in (0, 1) and a positive --dp-norm, not "
            f"{wanted}, {delta} and {norm}."
        )
    low, high = norm * 1e-3, norm * 1e3
    for _ in range(40):
        middle = math.sqrt(low * high)
        terms = replace(task.secret, epsilon=wanted, delta=delta, norm=norm, noise=middle)
        # One share less than a sum has: the client that is protected knows its own, and so may its finder.
        if epsilon(Encoding.of(replace(task, secret=terms)), terms.least - 1) > wanted:
            low = middle
        else:
            high = middle
    return replace(task, secret=replace(terms, noise=high))


def guarantee(task: Task) -> Guarantee | None:
    """What the task promises of each sum; None where there is no noise."""
    terms = task.secret
    if terms is None or not terms.noise:
        return None
    return Guarantee(terms.epsilon, terms.delta, COVERS.format(least=terms.least - 1))
