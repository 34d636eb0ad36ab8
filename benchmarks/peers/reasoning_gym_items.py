"""reasoning-gym's generators are timed on the dataset and settings of the command line: items per CPU-second as JSON."""

import json
import sys
import time

import reasoning_gym

SIZE = 10**9  # virtual: an item is made when it is asked for


def main() -> None:
    """Measure windows over ever new items and print the best."""
    name, settings, windows, seconds = sys.argv[1:]
    dataset = reasoning_gym.create_dataset(name, size=SIZE, seed=0, **json.loads(settings))
    dataset[0]
    index, best = 1, 0.0
    for _ in range(int(windows)):
        first, started = index, time.process_time()
        while time.process_time() - started < float(seconds):
            for _ in range(10):
                dataset[index]
                index += 1
        best = max(best, (index - first) / (time.process_time() - started))
    print(json.dumps({"items_per_cpu_second": best}))


if __name__ == "__main__":
    main()
