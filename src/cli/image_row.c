/* image_row.c - the row of `bailey image`: options and texts; its code is in client/image.c. */
#include "base/cleanup.h"
#include "cli/client_request.h"
#include "cli/command.h"
#include "cli/option_setters.h"

OPTION_SETS_TEXT(take_template, struct client_request, template_name)
OPTION_SETS_TEXT(take_config, struct client_request, config_file)
OPTION_SETS_SWITCH(take_quiet, struct client_request, is_quiet)
OPTION_SETS_SWITCH(take_json, struct client_request, is_json)

/* --tag and --package are read where they are needed: option_given(). */
static const struct option_row image_options[] = {
    {.name = "template",
     .argument = "NAME",
     .help = "build: include the packages of this template, which must be built",
     .take = take_template},
    {.name = "tag",
     .letter = 't',
     .argument = "NAME[:TAG]",
     .help = "build: name of the image (default DOCKER_IMAGE)"},
    {.name = "package",
     .argument = "NAME",
     .help = "build: an additional Debian package, such as git; may be repeated"},
    {.name = "quiet",
     .letter = 'q',
     .help = "build: print only the id; ls: print only names",
     .take = take_quiet},
    {.name = "json", .letter = 'j', .help = "print JSON", .take = take_json},
    {.name = "config",
     .argument = "FILE",
     .words = WORDS_FILE,
     .help = "read this bailey.yaml",
     .take = take_config},
};

const struct command image_command = {
    .name = "image",
    .summary = "build, list and remove container images for boxes",
    .usage = "build [--template NAME] [--tag NAME] | ls | rm NAME...",
    .description =
        "With SANDBOX_TYPE=docker a box is a container of the image DOCKER_IMAGE. Any image with a "
        "Linux userland works; 'build' makes one with what a box needs, without a registry and "
        "without the docker command: Bash, Python, Node.js if it is installed here, and the usual "
        "programs.\n\nIt is assembled from the packages of this Debian or Ubuntu machine: "
        "installed and unchanged files are copied, others are downloaded by 'apt-get download'. "
        "Nothing of /etc, /home, /root or /var is copied, and root is not needed. On other "
        "machines build deploy/Dockerfile.sandbox.\n\nWith --template NAME (run 'bailey template "
        "build NAME' first) the image has the template's packages and variables too: containers "
        "see no folder of this machine, so packages have to be in the image.\n\n'ls' lists images "
        "that were built this way, 'rm' removes them; it does not remove other images.\n\nExample: "
        "bailey template build data; bailey image build --template data; SANDBOX_TYPE=docker "
        "bailey run plot.py",
    .options = image_options,
    .option_count = ARRAY_SIZE(image_options),
    .operand = "ACTION",
    .operands = WORDS_IMAGE_ACTION,
    .operand_max = 64,
    .in_engine = true,
};
