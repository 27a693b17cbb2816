"""The words and sentences of generated pairs."""

# The words of one row name one topic. None is in two rows or in a sentence.
_TOPICS = """
    anchor harpoon lifeboat mast rudder yacht
    almond cake cinnamon cookie muffin waffle
    banjo cello flute harp trumpet violin
    bandage fever injection stethoscope syringe vaccine
    beak eagle feather nest owl sparrow
    blizzard drizzle fog hailstorm hurricane thunder
    bracelet brooch earring necklace pendant ring
    brush canvas easel palette sketch watercolour
    bumper clutch gearbox headlight motorway tyre
    carrot garlic onion potato pumpkin spinach
    cheese butter cream cow milk yoghurt
    coat glove jacket scarf skirt sweater
    comet galaxy meteor moon planet telescope
    ant beetle caterpillar dragonfly moth wasp
    bull calf goat lamb pig stable
    cactus daisy lily orchid tulip violet
    armchair bookcase cupboard mattress sofa wardrobe
    bullet cannon dagger grenade pistol sword
    ballot election mayor parliament senator vote
    compass hike rucksack tent trail campfire
    exam homework lesson pupil textbook timetable
    chisel drill hammer pliers screwdriver wrench
    carriage locomotive platform railway sleeper tunnel
    chapel hymn monk prayer sermon temple
"""
TOPICS = [row.split() for row in _TOPICS.strip().splitlines()]

PAIR_SENTENCES = (
    "A book about the {topic} lay open on the table",
    "About the {topic} my {relative} could talk for {number} minutes",
    "For {number} days nobody in our house mentioned the {topic}",
    "I dreamt of the {topic} again",
    "In a letter to the {craft} my {relative} praised the {topic}",
    "It was on {day} that we first spoke of the {topic}",
    "My {relative} took {number} photographs of the {topic} last {season}",
    "Nobody but my {relative} remembers the {topic}",
    "On {day} a {kind} stranger asked me about the {topic}",
    "On the radio a {craft} and a {craft} argued about the {topic}",
    "She wrote a poem on the {topic} for my {relative}",
    "The {topic} reminds me of my {relative}",
    "The {topic} was all that the {kind} {craft} could think of on {day}",
    "There was a picture of the {topic} above the door",
    "This {season} the {craft} gave a talk on the {topic} in town",
    "We paid {number} pounds for the {topic} on {day}",
    "When my {relative} called, the {topic} came up at once",
    "With the {topic} on the cover it sold {number} copies",
)
