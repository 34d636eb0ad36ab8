"""People of a generated world get names, addresses, ids and cards from closed lists; nobody is meant by them.

Every function takes the generator that it draws from, and nothing else decides what it returns.
"""

from dataclasses import dataclass
from random import Random

FIRST_NAMES = (
    "Ada Alma Amir Anika Arlo Bela Bruno Carla Cecil Chloe Clara Dario Delia Dina Edgar Elif Emil Enzo Esther Faye Felix "
    "Fiona Flora Gino Greta Hana Hector Hugo Ida Ines Iris Ivan Jana Jasper Jonas Juno Kai Kira Lars Lena Leo Lila Luca "
    "Mara Marco Maya Milo Mira Nadia Nico Nina Noel Nora Olga Omar Otis Otto Pablo Petra Priya Quinn Rafael Rita Rosa "
    "Ruben Sami Selma Silas Sonja Stella Tara Theo Tomas Ulla Vera Viktor Wanda Willa Xenia Yara Yusuf Zora"
).split()
LAST_NAMES = (
    "Abbott Adler Amsel Baker Barros Becker Bianchi Boateng Brandt Carver Castillo Chandra Cole Costa Dalton Demir Diaz "
    "Drake Dubois Egger Ekman Farouk Fischer Flores Foster Garner Gomez Graf Greene Haddad Hale Hansen Hoffman Holm Ibrahim "
    "Ito Jansen Jensen Kamara Kaplan Keller Khan Kimura Kowalski Lang Larsen Lindqvist Lopez Lutz Marino Mendez Meyer Moreau "
    "Nakamura Nash Novak Okafor Olsen Ortega Osei Patel Pereira Quist Ramos Reyes Ritter Rossi Sato Schmidt Silva Singh "
    "Sorensen Stone Suzuki Tanaka Torres Ueda Vargas Vogel Wagner Weaver Winter Yilmaz York Zhang Ziegler"
).split()
# City, state, and the first three figures of its zip codes.
CITIES = (
    ("Albany", "NY", "122"), ("Asheville", "NC", "288"), ("Atlanta", "GA", "303"), ("Austin", "TX", "787"),
    ("Baltimore", "MD", "212"), ("Boise", "ID", "837"), ("Boston", "MA", "021"), ("Boulder", "CO", "803"),
    ("Buffalo", "NY", "142"), ("Chicago", "IL", "606"), ("Cleveland", "OH", "441"), ("Columbus", "OH", "432"),
    ("Dallas", "TX", "752"), ("Denver", "CO", "802"), ("Detroit", "MI", "482"), ("Duluth", "MN", "558"),
    ("Eugene", "OR", "974"), ("Fresno", "CA", "937"), ("Houston", "TX", "770"), ("Madison", "WI", "537"),
    ("Memphis", "TN", "381"), ("Miami", "FL", "331"), ("Omaha", "NE", "681"), ("Phoenix", "AZ", "850"),
    ("Portland", "OR", "972"), ("Raleigh", "NC", "276"), ("Reno", "NV", "895"), ("Sacramento", "CA", "958"),
    ("Savannah", "GA", "314"), ("Seattle", "WA", "981"), ("Spokane", "WA", "992"), ("Tucson", "AZ", "857"),
)  # fmt: skip
STREETS = (
    "Alder Court", "Bay Avenue", "Birch Lane", "Bridge Street", "Canal Road", "Cedar Avenue", "Chapel Hill", "Church Street",
    "Clover Drive", "Depot Street", "Elm Street", "Fern Road", "Garden Street", "Grove Avenue", "Harbor Road", "Hazel Court",
    "Hill Street", "Ivy Lane", "Juniper Way", "King Street", "Lake Drive", "Laurel Avenue", "Linden Street", "Maple Drive",
    "Meadow Lane", "Mill Road", "Oak Street", "Orchard Road", "Park Avenue", "Pine Street", "Quarry Road", "River Road",
    "School Lane", "Spruce Street", "Station Road", "Summit Avenue", "Valley Road", "Walnut Street", "Willow Way",
)  # fmt: skip
MAIL_HOSTS = ("example.com", "example.org", "example.net", "mail.example.com", "post.example.org")
CARD_BRANDS = ("visa", "mastercard")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody's name."""

    first: str
    last: str

    @property
    def full(self) -> str:
        """Both names."""
        return f"{self.first} {self.last}"


def people(rng: Random, count: int) -> tuple[Person, ...]:
    """Return that many people, no two of the same name."""
    places = rng.sample(range(len(FIRST_NAMES) * len(LAST_NAMES)), count)
    return tuple(Person(FIRST_NAMES[p // len(LAST_NAMES)], LAST_NAMES[p % len(LAST_NAMES)]) for p in places)


def digits(rng: Random, count: int) -> str:
    """Return a number of that many figures; the first is not 0."""
    return str(rng.randrange(10 ** (count - 1), 10**count))


def codes(rng: Random, count: int, figures: int) -> tuple[str, ...]:
    """Return that many different numbers of that many figures."""
    low = 10 ** (figures - 1)
    return tuple(str(low + place) for place in rng.sample(range(9 * low), count))


def user_id(person: Person, code: str) -> str:
    """Return the id that a person has as a user, such as "mira_holm_4821"."""
    return f"{person.first}_{person.last}_{code}".lower()


def email(rng: Random, person: Person, code: str) -> str:
    """Return an e-mail address, at a host that belongs to nobody."""
    first, last = person.first.lower(), person.last.lower()
    start = rng.choice(
        (f"{first}.{last}{code}", f"{first}{last}{code}", f"{first[0]}.{last}{code}", f"{last}.{first}{code}")
    )
    return f"{start}@{rng.choice(MAIL_HOSTS)}"


def address(rng: Random) -> dict[str, str]:
    """Return an address: `address1`, `address2` (often ""), `city`, `country`, `state` and `zip`."""
    city, state, area = rng.choice(CITIES)
    flat = f"{rng.choice(('Apt', 'Suite', 'Unit'))} {rng.randrange(1, 400)}" if rng.random() < 0.5 else ""
    return {
        "address1": f"{rng.randrange(1, 999)} {rng.choice(STREETS)}", "address2": flat, "city": city, "country": "USA",
        "state": state, "zip": f"{area}{rng.randrange(100):02d}",
    }  # fmt: skip


def on_one_line(place: dict[str, str]) -> str:
    """Return an address as people write it: "4 Mill Road, Apt 2, Albany, NY 12204, USA"."""
    lines = [place["address1"], place["address2"], place["city"], f"{place['state']} {place['zip']}", place["country"]]
    return ", ".join(line for line in lines if line)


def phone(rng: Random) -> str:
    """Return a telephone number of the range that is kept for fiction."""
    return f"{rng.randrange(201, 990)}-555-01{rng.randrange(100):02d}"


def birthday(rng: Random, first_year: int = 1945, last_year: int = 2004) -> str:
    """Return a date of birth, such as "1980-03-17"."""
    return f"{rng.randrange(first_year, last_year + 1)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
