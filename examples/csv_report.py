# csv_report.py - reads the CSV that --file copied in, leaves two files for --out to fetch.
#
#   bailey run --file sales.csv --out report csv_report.py -- sales.csv
import csv
import json
import os
import sys
from collections import defaultdict

output = os.environ.get("OUTPUT_DIR", "/tmp/output")
name = sys.argv[1] if len(sys.argv) > 1 else "sales.csv"
turnover = defaultdict(float)
skipped = 0

with open(name, newline="") as file:
    for row in csv.DictReader(file):
        try:
            turnover[row["region"]] += int(row["pieces"]) * float(row["price"])
        except ValueError:
            skipped += 1

with open(os.path.join(output, "turnover.csv"), "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["region", "turnover"])
    writer.writerows((region, f"{sum_:.2f}") for region, sum_ in sorted(turnover.items()))
with open(os.path.join(output, "summary.json"), "w") as file:
    json.dump({"regions": len(turnover), "skipped_rows": skipped}, file)

for region, sum_ in sorted(turnover.items(), key=lambda item: -item[1]):
    print(f"{region:<6} {sum_:8.2f}")
print(f"{skipped} row skipped" if skipped == 1 else f"{skipped} rows skipped")
