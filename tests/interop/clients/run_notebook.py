"""run_notebook.py - runs a notebook and prints what each of its code cells showed, as JSON."""
import json
import sys

import nbclient
import nbformat

notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
print(json.dumps([[output.get("data", {"text/plain": output.get("text", "")}) for output in cell.outputs]
                  for cell in notebook.cells if cell.cell_type == "code"]))
