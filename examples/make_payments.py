"""Makes ``payments.jsonl``: 120 payment tasks, one JSON object a line, the same at every run.

Amounts are integers in the currency's minor unit; the yen has none. Most cards pay. Six tasks are
refused by the provider, and in three more the deposit is paid and then refunded, because the card for
the balance is declined. ``pm_card_chargeCustomerFail`` is declined by Stripe's test mode and by
localstripe alike; ``pm_card_visa_chargeDeclined`` is not: localstripe lets it pay.

    python examples/make_payments.py [FILE]
"""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import json
import random  # noqa: TID251 - seeded: the file must come out the same
import sys
from dataclasses import dataclass
from pathlib import Path

SEED = 20260401
TASKS = 120
PAYS = "pm_card_visa"
IS_DECLINED = "pm_card_chargeCustomerFail"
REFUSED = frozenset({9, 27, 46, 68, 85, 113})
DEPOSIT_REFUNDED = frozenset({18, 57, 96})

CURRENCIES = ("eur",) * 8 + ("usd",) * 6 + ("gbp",) * 4 + ("jpy",) * 2
CUSTOMERS = {
    "eur": (
        "Kunze Maschinenbau GmbH",
        "Boulangerie Lefèvre",
        "Óptica Serrano S.L.",
        "Studio Bianchi",
    ),
    "usd": (
        "Harbor Freight & Tackle",
        "Maple Ridge Dental",
        "Bluestem Analytics Inc.",
        "R. Okafor",
    ),
    "gbp": ("Thistle & Crane Ltd", "Penrose Bookshop", "Whitlock Surveyors LLP", "J. Adeyemi"),
    "jpy": ("株式会社青葉製作所", "喫茶ひまわり", "Takeda Print Works"),
}


@dataclass(frozen=True)
class Ware:
    """Something that is invoiced, with its range of prices in whole euros, dollars or pounds."""

    text: str
    lowest: int
    highest: int
    cents: tuple[int, ...] = (0, 50, 90, 95, 99)


WARES = (
    Ware("spare parts, delivery note {number}", 40, 900),
    Ware("monthly subscription, {month} 2026", 19, 19, (99,)),
    Ware("annual licence, 5 seats", 588, 588, (0,)),
    Ware("workshop on {month} 14, two participants", 380, 760, (0,)),
    Ware("consulting, March to June", 300, 2400, (0, 50)),
    Ware("order {number}, express shipping", 15, 220),
    Ware("maintenance contract, second quarter", 120, 640),
)
MONTHS = ("January", "February", "March", "April", "May", "June")
YEN_PER_UNIT = 160


def amount(dice: random.Random, ware: Ware, currency: str) -> int:
    """An amount in the minor unit of ``currency``."""
    minor = dice.randint(ware.lowest, ware.highest) * 100 + dice.choice(ware.cents)
    return minor * YEN_PER_UNIT // 1000 * 10 if currency == "jpy" else minor


def charge(minor: int, currency: str, card: str, description: str) -> dict[str, object]:
    """The input of one ``stripe.charge`` effect."""
    return {
        "amount": minor,
        "currency": currency,
        "payment_method": card,
        "description": description,
    }


def steps(dice: random.Random, number: int, currency: str) -> list[dict[str, object]]:
    """The steps of one task: one charge, or a deposit with its undo and a balance."""
    ware = dice.choice(WARES)
    text = ware.text.format(number=dice.randint(10_000, 99_999), month=dice.choice(MONTHS))
    invoice = f"Invoice 2026-{1400 + number:04}, {dice.choice(CUSTOMERS[currency])}: {text}"
    total = amount(dice, ware, currency)
    if number not in DEPOSIT_REFUNDED:
        card = IS_DECLINED if number in REFUSED else PAYS
        made = charge(total, currency, card, invoice)
        return [{"name": "charge", "kind": "stripe.charge", "input": made}]
    deposit = total * 3 // 10
    return [
        {
            "name": "deposit",
            "kind": "stripe.charge",
            "input": charge(deposit, currency, PAYS, f"{invoice} (deposit of 30 %)"),
            "undo": {"kind": "stripe.refund", "input": {}},
        },
        {
            "name": "balance",
            "kind": "stripe.charge",
            "input": charge(total - deposit, currency, IS_DECLINED, f"{invoice} (balance)"),
        },
    ]


def tasks() -> list[dict[str, object]]:
    """All tasks, in order."""
    dice = random.Random(SEED)  # noqa: S311 - repeatable, nothing secret
    made: list[dict[str, object]] = []
    for number in range(1, TASKS + 1):
        currency = dice.choice(CURRENCIES)
        made.append(
            {
                "task_id": f"pay-{number:04}",
                "kind": "payment",
                "partition": currency,
                "message_id": f"msg-{number:04}",
                "steps": steps(dice, number, currency),
            }
        )
    return made


def main() -> None:
    """Write the file: the one named on the command line, or ``payments.jsonl`` beside this script."""
    named = [Path(name) for name in sys.argv[1:2]]
    file = named[0] if named else Path(__file__).with_name("payments.jsonl")
    lines = [json.dumps(task, ensure_ascii=False) for task in tasks()]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
