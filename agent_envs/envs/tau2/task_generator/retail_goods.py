"""The generated shop sells fifty products, each in several variants of different options."""

from itertools import product
from random import Random
from typing import Any

from agent_envs.envs.tau2.task_generator.names import codes

_GOODS = """
Air Fryer | 60-140 | capacity: 3 liters, 5 liters | color: black, white, red | control: dial, touch screen
Alarm Clock | 15-60 | color: silver, green, blue | display: digital, analog | power: battery, mains
Backpack | 40-130 | size: small, medium, large | color: grey, navy, olive | material: canvas, nylon
Bath Towel | 12-40 | color: white, teal, coral | size: standard, oversized | material: cotton, bamboo
Bicycle Helmet | 35-110 | size: S, M, L | color: black, yellow, red | visor: with visor, without visor
Bluetooth Speaker | 40-160 | color: black, blue, pink | battery life: 10 hours, 20 hours | waterproof: yes, no
Board Game | 25-70 | theme: pirates, castles, space | language: English, Spanish | players: two, up to six
Bookshelf | 90-260 | height: 4 feet, 6 feet | color: oak, walnut, white | material: solid wood, metal
Camping Tent | 120-340 | capacity: 2 people, 4 people, 6 people | color: green, orange | season: summer, all seasons
Card Holder | 18-55 | color: brown, black, tan | material: leather, fabric | slots: 4, 8
Coffee Maker | 50-190 | type: drip, espresso, capsule | color: black, steel, red | timer: with timer, without timer
Cookware Set | 110-330 | pieces: 5 pieces, 8 pieces, 12 pieces | material: ceramic, stainless steel, cast iron
Desk Chair | 120-380 | color: black, grey, beige | armrests: fixed, adjustable, none | back: mesh, leather
Desk Lamp | 25-95 | color: black, white, brass | bulb: LED, halogen | arm: short, long
Digital Camera | 250-780 | resolution: 20 megapixels, 24 megapixels | zoom: 3x, 5x, 10x | color: black, silver
Dog Bed | 30-120 | size: small, medium, large | color: grey, brown | filling: foam, fiber
Electric Kettle | 25-90 | capacity: 1 liter, 1.5 liters | color: white, black, mint | material: glass, steel
Electric Toothbrush | 35-150 | color: white, black, pink | modes: 2 modes, 5 modes | charging: dock, cable
Fitness Tracker | 45-170 | color: black, purple, green | strap: silicone, woven | GPS: with GPS, without GPS
Garden Hose | 22-80 | length: 25 feet, 50 feet, 100 feet | color: green, black | nozzle: spray, jet
Gaming Mouse | 30-120 | color: black, white, red | sensor: optical, laser | connection: wired, wireless
Grill | 140-460 | type: charcoal, gas, pellet | size: portable, large | thermometer: built in, none
Hair Dryer | 28-140 | color: black, pink, gold | power: 1400 watts, 2000 watts | attachment: diffuser, nozzle
Headphones | 60-310 | type: over-ear, in-ear | color: black, white, blue | connection: wired, wireless
Hiking Boots | 80-230 | size: 7, 8, 9, 10, 11 | color: brown, grey | material: suede, synthetic
Indoor Plant Pot | 12-55 | size: small, medium, large | color: terracotta, white, black | drainage: with hole, without hole
Jigsaw Puzzle | 14-45 | pieces: 500, 1000, 2000 | motif: harbor, animals, mountains | finish: matte, glossy
Laptop Stand | 25-85 | color: silver, black | height: fixed, adjustable | material: aluminum, plastic, wood
Luggage Set | 130-420 | pieces: 2 pieces, 3 pieces | color: navy, black, red | shell: hard, soft
Mechanical Keyboard | 70-210 | switch: linear, tactile, clicky | layout: full size, compact | backlight: white, RGB, none
Mountain Bike | 420-980 | frame: S, M, L | gears: 12, 21 | color: black, orange, blue
Notebook | 8-28 | paper: lined, dotted, blank | cover: hardcover, softcover | size: A5, A4
Office Desk | 160-480 | width: 48 inches, 60 inches | color: oak, white, black | legs: fixed, height adjustable
Perfume | 40-180 | scent: floral, woody, citrus | volume: 30 ml, 50 ml, 100 ml
Phone Case | 12-48 | color: clear, black, lilac | material: silicone, leather | stand: with stand, without stand
Picnic Blanket | 20-70 | size: medium, large | pattern: checked, striped, plain | backing: waterproof, none
Portable Charger | 25-95 | capacity: 10000 mAh, 20000 mAh | color: black, white, green | ports: one, two
Rain Jacket | 60-190 | size: S, M, L, XL | color: yellow, navy, red | hood: fixed, detachable
Robot Vacuum | 190-640 | color: white, black | navigation: camera, laser, bump | mop: with mop, without mop
Running Shoes | 70-190 | size: 7, 8, 9, 10, 11 | color: white, black, blue | sole: rubber, foam
Skateboard | 45-160 | deck: maple, bamboo, plastic | length: 28 inches, 31 inches | design: plain, graphic
Smart Thermostat | 90-260 | color: white, black, copper | hub: Matter, Zigbee | display: round, square
Smart Watch | 120-420 | color: silver, black, gold | band: leather, metal, silicone | size: 40 mm, 44 mm
Tablet | 200-720 | storage: 64 GB, 128 GB, 256 GB | color: grey, silver, blue | screen: 8 inches, 11 inches
Tea Sampler | 14-48 | type: green tea, black tea, herbal tea | box: 20 bags, 40 bags | caffeine: yes, no
T-Shirt | 12-38 | size: S, M, L, XL | color: white, black, red, green | neck: round neck, V-neck
USB Hub | 18-75 | ports: 4, 7, 10 | color: silver, black | power: powered, passive
Wall Clock | 18-80 | diameter: 10 inches, 14 inches | color: white, black, red | numerals: Roman, Arabic, none
Water Bottle | 12-45 | capacity: 500 ml, 750 ml, 1000 ml | color: blue, black, coral | material: steel, glass
Yoga Mat | 18-75 | thickness: 4 mm, 6 mm, 8 mm | color: purple, teal, black | material: rubber, cork
"""
_MOST_VARIANTS = 12
_AVAILABLE = 0.78


def products(rng: Random) -> dict[str, dict[str, Any]]:
    """Return all products by id, each with 6 to 12 variants whose prices all differ."""
    rows = _GOODS.strip().splitlines()
    items = iter(codes(rng, _MOST_VARIANTS * len(rows), 10))
    made = {}
    for row, product_id in zip(rows, codes(rng, len(rows), 10), strict=True):
        name, prices, *axes = (part.strip() for part in row.split("|"))
        options = [_options(axis) for axis in axes]
        variants = _variants(rng, options, prices, [next(items) for _ in range(_MOST_VARIANTS)])
        made[product_id] = {"name": name, "product_id": product_id, "variants": variants}
    return made


def _options(axis: str) -> list[tuple[str, str]]:
    name, _, values = axis.partition(": ")
    return [(name, value) for value in values.split(", ")]


def _variants(rng: Random, options: list[list[tuple[str, str]]], prices: str, ids: list[str]) -> dict[str, Any]:
    low, high = map(int, prices.split("-"))
    combinations = list(product(*options))
    chosen = rng.sample(combinations, min(len(combinations), rng.randrange(6, _MOST_VARIANTS + 1)))
    # No price is a round number of dimes, so that every sum says its cents as plain as any tool writes them.
    cents = [place // 9 * 10 + place % 9 + 1 for place in rng.sample(range(low * 90, high * 90), len(chosen))]
    absent = {place for place in range(len(chosen)) if rng.random() > _AVAILABLE}
    return {
        item_id: {
            "item_id": item_id, "options": dict(values), "available": place not in absent or place < 3,
            "price": cents[place] / 100,
        }
        for place, (item_id, values) in enumerate(zip(ids, chosen, strict=False))
    }  # fmt: skip
