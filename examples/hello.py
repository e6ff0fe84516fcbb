# hello.py - the kind of code an agent writes: some data, some numbers, a file in /tmp/output.
import csv
import os
import random
import statistics

random.seed(7)
cities = ["Oslo", "Lima", "Accra", "Hanoi"]
rows = []
for city in cities:
    readings = [random.gauss(15, 6) for _ in range(365)]
    rows.append([city, round(statistics.mean(readings), 2), round(statistics.stdev(readings), 2),
                 round(min(readings), 1), round(max(readings), 1)])

# /tmp/output, or wherever it is in a box without namespaces
report = os.path.join(os.environ.get("OUTPUT_DIR", "/tmp/output"), "report.csv")
with open(report, "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["city", "mean", "deviation", "coldest", "warmest"])
    writer.writerows(rows)

warmest = max(rows, key=lambda row: row[1])
print(f"{len(cities)} cities, {365 * len(cities)} readings")
for row in rows:
    print(f"  {row[0]:<6} mean {row[1]:5.2f}  from {row[3]:5.1f} to {row[4]:5.1f}")
print(f"warmest on average: {warmest[0]}")
print(f"written: {report}")
