"""What FLEX_TEMPLATE_PYTHON_PY_FILE of the image names: Google's launcher runs it as a file, with the parameters."""

from tokcore_pipelines.commands.launch_template import main

if __name__ == "__main__":
    main()
