/*
 * import_names.c - which distribution brings a module whose name is not its own; see
 * import_names.h.
 *
 * Source of every row: the distribution's own wheel on PyPI, whose files say what can be imported.
 * tools/check-import-names reads them again and fails on a row that does not match. A module that
 * is in no row is looked for under its own name.
 */
#include "session/import_names.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

static const struct import_name names[] = {
    {"Crypto", "pycryptodome"},
    {"Cryptodome", "pycryptodomex"},
    {"MySQLdb", "mysqlclient"},
    {"OpenSSL", "pyOpenSSL"},
    {"PIL", "pillow"},
    {"attr", "attrs"},
    {"bs4", "beautifulsoup4"},
    {"cv2", "opencv-python-headless"},
    {"dateutil", "python-dateutil"},
    {"docx", "python-docx"},
    {"dotenv", "python-dotenv"},
    {"fitz", "pymupdf"},
    {"git", "GitPython"},
    {"google.protobuf", "protobuf"},
    {"jose", "python-jose"},
    {"jwt", "PyJWT"},
    {"kafka", "kafka-python"},
    {"magic", "python-magic"},
    {"mpl_toolkits", "matplotlib"},
    {"multipart", "python-multipart"},
    {"nacl", "PyNaCl"},
    {"pptx", "python-pptx"},
    {"psycopg2", "psycopg2-binary"},
    {"pywt", "PyWavelets"},
    {"serial", "pyserial"},
    {"skimage", "scikit-image"},
    {"sklearn", "scikit-learn"},
    {"slugify", "python-slugify"},
    {"socks", "PySocks"},
    {"telegram", "python-telegram-bot"},
    {"umap", "umap-learn"},
    {"usb", "pyusb"},
    {"websocket", "websocket-client"},
    {"wx", "wxPython"},
    {"yaml", "PyYAML"},
    {"zmq", "pyzmq"},
};

const struct import_name *import_names(size_t *ret_count)
{
    *ret_count = ARRAY_SIZE(names);
    return names;
}

/* "a.b.c" is looked for as it is, then "a.b", then "a". */
const char *import_distribution(const char *module, char *text, size_t size)
{
    if (!str_copy(text, size, module))
        return NULL;
    for (;;) {
        char *dot;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
            if (str_equal(names[i].module, text))
                return names[i].distribution;
        }
        dot = strrchr(text, '.');
        if (!dot)
            return text;
        *dot = 0;
    }
}
