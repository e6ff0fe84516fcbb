/* image_row.c - the row of `bailey image`: options and words; its code is in client/image.c. */
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
     .help = "build: put the packages of this template into it; it has to be built here",
     .take = take_template},
    {.name = "tag",
     .letter = 't',
     .argument = "NAME[:TAG]",
     .help = "build: what it is called, DOCKER_IMAGE if not given"},
    {.name = "package",
     .argument = "NAME",
     .help = "build: a package of Debian beside the usual ones, such as git; may be repeated"},
    {.name = "quiet",
     .letter = 'q',
     .help = "build: print the id alone; ls: print names only",
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
    .summary = "make, list and remove images for boxes in containers",
    .usage = "build [--template NAME] [--tag NAME] | ls | rm NAME...",
    .description =
        "With SANDBOX_TYPE=docker a box is a container of the image DOCKER_IMAGE. Any image with a "
        "Linux userland will do; 'build' makes one that has what a box needs, without a registry "
        "and without the docker command: Bash, Python, Node.js if it is installed here, and the "
        "usual programs.\n\n"
        "It is assembled from the packages of this Debian or Ubuntu machine: what is installed and "
        "unchanged is taken as it is, what is not is fetched by 'apt-get download'. Nothing of "
        "/etc, /home, /root or /var goes in, and nobody has to be root for it. On other machines "
        "build deploy/Dockerfile.sandbox.\n\n"
        "With --template NAME ('bailey template build NAME' comes first) the image has the "
        "template's packages and variables too: containers see no folder of this machine, so "
        "packages are the image's business.\n\n"
        "'ls' lists the images that were made so, 'rm' removes them; other images are left "
        "alone.\n\n"
        "Example: bailey template build data; bailey image build --template data; "
        "SANDBOX_TYPE=docker bailey run plot.py",
    .options = image_options,
    .option_count = ARRAY_SIZE(image_options),
    .operand = "ACTION",
    .operands = WORDS_IMAGE_ACTION,
    .operand_max = 64,
    .in_engine = true,
};
