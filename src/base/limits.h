/*
 * limits.h - every ceiling of the project, named once. A growth without a row here is a bug;
 * hitting one is a result ("truncated", "too_large"), never a crash.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_LIMITS_H
#define BAILEY_BASE_LIMITS_H

#define KIB (1024ULL)
#define MIB (1024ULL * KIB)
#define GIB (1024ULL * MIB)

/* what a caller may hand in */
#define LIMIT_CODE_BYTES (5 * MIB)      /* source of one run */
#define LIMIT_STORED_CODE MIB           /* of it that SANDBOX_STORE_CODE keeps */
#define LIMIT_NOTEBOOK_BYTES (64 * MIB) /* a notebook with its outputs */
#define LIMIT_CONFIG_BYTES (1 * MIB)    /* bailey.yaml */
#define LIMIT_ARGV_BYTES (128 * KIB)    /* argv + environment of one command; fits two frames */
#define LIMIT_ARGV_COUNT 4096
#define LIMIT_ENV_COUNT 1024
#define LIMIT_PATH_BYTES 4095
#define LIMIT_COPY_FILES 1000 /* --file, and files below a folder given to it */

/* any JSON from outside: of a guest, a client or Docker */
#define LIMIT_JSON_DEPTH 64             /* brackets within brackets */
#define LIMIT_JSON_STRUCTURE (16 * MIB) /* memory of its values, besides their text */

/* what a caller may ask for */
#define LIMIT_TIMEOUT_MS (24ULL * 3600 * 1000)
#define LIMIT_KEEP_MS (365ULL * 24 * 3600 * 1000) /* of what ages out on disk */
#define LIMIT_MEMORY_MIN (16 * MIB)
#define LIMIT_MEMORY_MAX (1ULL << 44)
#define LIMIT_DISK_MIN (1 * MIB)
#define LIMIT_PIDS_MIN 4
#define LIMIT_PIDS_MAX 100000
#define LIMIT_OUTPUT_MIN 1
#define LIMIT_OUTPUT_MAX (256 * MIB)
#define LIMIT_CPU_MILLIS_MIN 10 /* a hundredth of a core */
#define LIMIT_CPU_MILLIS_MAX 1024000

/* what one disk of a box may hold besides bytes: one inode for each 4 KiB, at least this many */
#define LIMIT_INODES_MIN 4096
#define LIMIT_INODES(disk_bytes) \
    ((disk_bytes) / 4096 > LIMIT_INODES_MIN ? (disk_bytes) / 4096 : LIMIT_INODES_MIN)

/* frames */
#define WIRE_FRAME_MAX (64 * KIB)      /* header and payload */
#define WIRE_STREAM_WINDOW (512 * KIB) /* bytes of one stream in flight, not acknowledged yet */
#define LIMIT_COMMANDS 128             /* of one box at once, and as many that have ended */
#define LIMIT_FILE_OPS 256             /* of one box at once */
#define WIRE_PORT_WINDOW (64 * KIB)    /* the same of a connection to a port, each way */
#define LIMIT_PORT_STREAMS 128         /* connections to the ports of one box at once */
#define LIMIT_TENANT_PORTS 256         /* and to those of all sessions of one tenant */
#define LIMIT_LISTED_PORTS 1024        /* of one box that are listed */
#define LIMIT_PORT_HEAD (32 * KIB)     /* status line and headers that a guest's server answers */
#define LIMIT_PORT_HEADERS 100         /* and how many */
#define LIMIT_WATCHES 8192             /* folders that the watches of one box cover */
#define LIMIT_TERMINAL 4096            /* rows or columns */

/* the daemon */
#define LIMIT_SESSIONS 10000           /* SANDBOX_MAX_SESSIONS may not exceed it */
#define LIMIT_EXECUTIONS 1000          /* of one session that are remembered; all are listed */
#define LIMIT_EXECUTIONS_AFTER 100     /* and once it has ended */
#define LIMIT_EXECUTION_WORDS 512      /* bytes of an ended one's argv in memory, else its row's */
#define LIMIT_SESSION_SPOOLS (2 * GIB) /* output of its ended commands on disk: the newest */
#define LIMIT_TIME_MS 253402300799000ULL /* the end of the year 9999: no time is later */
#define LIMIT_SPOOL_BYTES (64 * MIB)     /* of one stream kept on disk: the newest */
#define LIMIT_SPOOL_HEAD (1 * MIB)       /* and of its beginning, for the result */
#define LIMIT_EARLY_OUTPUT (64 * KIB)    /* of a stream in memory and in its row; then a file */
#define LIMIT_REQUEST_JSON (16 * MIB)    /* a JSON body: content of 5 MB as \uXXXX is up to 15 */
#define LIMIT_IDEMPOTENCY_KEY 255        /* bytes of the header Idempotency-Key */
#define LIMIT_KEPT_REPLY (256 * KIB)     /* a reply that is kept for it; */
#define LIMIT_KEPT_REPLIES (16 * MIB)    /* all of them of one tenant, */
#define LIMIT_KEPT_REPLY_ROWS 10000      /* and how many requests */
#define LIMIT_CONTENT_BYTES (5 * MIB)    /* sandbox_write_file */
#define LIMIT_EDIT_BYTES (8 * MIB)       /* a file that sandbox_edit_file changes */
#define LIMIT_TOOL_OUTPUTS 20            /* files fetched after each sandbox_exec */
#define LIMIT_NAME 64                    /* bytes of a session's name, a dataset's name */
#define LIMIT_DATASETS 256               /* of one session */
#define LIMIT_EVENTS 4096                /* of the bus that can be asked for again */
#define LIMIT_EVENTS_BYTES (16 * MIB)    /* and as text: with long command lines they are fewer */
#define LIMIT_ENDED_SESSIONS 1000        /* that are remembered with why they ended */
#define LIMIT_HELD_TENANT (24 * MIB)     /* bodies, replies and events that wait, of one tenant */
#define LIMIT_HELD (256 * MIB)           /* and of all of them */
#define LIMIT_CLIENTS 4096               /* connections at once, of each address */
#define LIMIT_TENANT_CLIENTS 512         /* of those, that one tenant has with its keys */
#define LIMIT_KEYLESS 512                /* of those, that one client address has without a key */
#define LIMIT_EXEC_TIMEOUT_S 300         /* of sandbox_exec */
#define LIMIT_INDEX_CHECK (64 * MIB)     /* of the index are checked when it is opened */
#define LIMIT_METRIC_SERIES 4096         /* label sets of one metric */
#define LIMIT_METRICS_TEXT (16 * MIB)    /* all of them, written out */
#define LIMIT_AUDIT_BYTES (64 * MIB)     /* of audit.jsonl, by default */
#define LIMIT_AUDIT_KEEP 8               /* of such files, likewise */
#define LIMIT_AUDIT_FILES 20000          /* that are looked at */
#define LIMIT_AUDIT_CODE (64 * KIB)      /* of code in a line, where SANDBOX_STORE_CODE says so */
#define LIMIT_AUDIT_LINE (1 * MIB)       /* of it: a longer line is kept without its fields */
#define LIMIT_REFUSAL_LINES 300 /* of one tenant that have a line of their own in a minute */

/* kernels, templates, layers */
#define LIMIT_POOL 256   /* SANDBOX_POOL_SIZE may not exceed it */
#define LIMIT_ZYGOTES 16 /* warm interpreters of one engine */
/* One inside of a container: what a box has to have, at least, and for each tier of its template */
#define LIMIT_ZYGOTE_MEMORY (64 * MIB)
#define LIMIT_ZYGOTE_PIDS 16
#define LIMIT_ZYGOTE_TIER_MEMORY (512 * MIB)
#define LIMIT_ZYGOTE_START_MS 30000 /* then it is given up */
#define LIMIT_ZYGOTE_FORK_MS 5000
#define LIMIT_TIERS_BYTES (16 * KIB) /* names of modules that they import */
#define LIMIT_MAKES_AT_ONCE 8        /* boxes that the provider is asked for at once */
#define LIMIT_KEYS 10000             /* API keys, expired ones too */
#define LIMIT_KEYS_OF_ADMIN 1000     /* that an admin may bring its own tenant to */
#define LIMIT_LATE_KERNELS 1024    /* of runs that have ended, whose CPU time is not reported yet */
#define LIMIT_TENANTS 4096         /* that are counted separately */
#define LIMIT_SCRAPE_WAIT_MS 500   /* for the launcher's numbers; without them then */
#define LIMIT_METRIC_VALUES 100    /* of a label whose values come from outside */
#define LIMIT_WS_QUEUE (256 * KIB) /* bytes that wait for a WebSocket's reader */
#define LIMIT_WS_SUBSCRIPTIONS 64  /* of one WebSocket */
#define LIMIT_WS_OWED (64 * KIB)   /* bytes of replies that wait; then it is not read */
#define LIMIT_WS_INPUTS 16         /* messages whose bytes a program has not read yet */
#define LIMIT_WS_PTY (1 * MIB)     /* of one message of a terminal */
#define LIMIT_WS_PING_MS 20000
#define LIMIT_WS_CLOSE_MS 3000 /* how long a client's close frame is waited for */
#define LIMIT_BOXES (LIMIT_SESSIONS + LIMIT_POOL) /* of one engine, prewarmed or not */
#define LIMIT_BRINGUPS 8                          /* boxes being made at once; others wait */
#define LIMIT_POOL_BUCKETS 16                     /* kinds of prewarmed boxes */
#define LIMIT_DEAD_GROUPS 256                     /* control groups whose removal may wait */
#define LIMIT_MOVED_DATASETS 64                   /* into the folder of a prewarmed box */
#define LIMIT_CONTEXTS 32                         /* of one session */
#define LIMIT_CELL_EVENTS (8 * MIB)               /* bytes of one cell's events that are kept */
#define LIMIT_CELL_RESULTS 1000                   /* events in one result */
#define LIMIT_LAYER_FILES 500000                  /* of one layer */
#define LIMIT_LAYER_BYTES (16 * GIB)
#define LIMIT_STAGING_FREE (1 * GIB) /* stays free on the disk that an installer writes to */
#define LIMIT_STAGING_INODES 10000   /* likewise, where there is a number of them */
#define LIMIT_CELLS 64               /* of one kernel: the one that runs, and those that wait */
#define LIMIT_CELLS_BYTES (32 * MIB) /* of one box: code, input and environment that wait */
#define LIMIT_CELL_TEXT (2 * LIMIT_CODE_BYTES + LIMIT_ARGV_BYTES) /* of one cell */
#define LIMIT_IMAGE_STANZAS 200000     /* packages that dpkg and apt list */
#define LIMIT_IMAGE_STATUS (256 * MIB) /* their text */
#define LIMIT_IMAGE_PACKAGES 2000      /* in one image */
#define LIMIT_IMAGE_ENTRIES 1000000    /* files, folders and links of an image */
#define LIMIT_TEMPLATES 256
#define LIMIT_TEMPLATE_FILES (16 * MIB) /* that a template brings along, together */
#define LIMIT_PACKAGES 64               /* of one installation */
#define LIMIT_SESSION_PACKAGES 256      /* that one session requested, in total */
#define LIMIT_INSTALLS 4                /* installer boxes for sessions and runs at once */
#define LIMIT_TEMPLATE_ROWS 256         /* packages, modules, variables or files of a template */
#define LIMIT_TIERS 7                   /* of a template, above the plain one */
#define LIMIT_MODULE 200                /* bytes of a module's name */
#define LIMIT_REQUIREMENT 200           /* bytes of a package's name with its version */
#define LIMIT_RECENT_LAYERS 8           /* kept for the next run, SANDBOX_INSTALL_SIZE together */
#define RECENT_LAYER_MS 3600000         /* how long they are kept */
#define INSTALL_MEMORY (2 * GIB)        /* of an installer box, where a box may have less */
#define INSTALL_LINE 1000               /* bytes of a line of its progress */
#define TEMPLATE_PATIENCE_MS 1800000    /* for building one; INSTALL_TIMEOUT is a session's */

/* the egress proxy */
#define LIMIT_EGRESS_BOXES 32        /* that it serves at once */
#define LIMIT_EGRESS_CALLERS 64      /* connections of one box at once; more wait for their turn */
#define LIMIT_EGRESS_ENTRIES 256     /* of one list */
#define LIMIT_EGRESS_HEAD (16 * KIB) /* of a request, or of a TLS ClientHello */
#define LIMIT_EGRESS_ADDRESSES 16    /* of one name */
#define LIMIT_EGRESS_VERDICTS 256    /* of one box that are recorded; then one that says so */
#define LIMIT_EGRESS_QUEUE 1024      /* verdicts that the launcher has not read yet */
#define LIMIT_EGRESS_DROP (64 * KIB) /* bytes that a caller sends beyond what is allowed */

/* one HTTP request */
#define LIMIT_SETTINGS 256               /* unused sets of callers' settings that are kept */
#define LIMIT_HTTP_HEADERS (64 * KIB)    /* its line and headers */
#define LIMIT_HTTP_TARGET (8 * KIB)      /* path and query */
#define LIMIT_HTTP_SEGMENTS 64           /* of the path */
#define LIMIT_HTTP_ARGUMENTS 64          /* of the query */
#define LIMIT_HTTP_PARAMS 8              /* {x} in one pattern */
#define LIMIT_HTTP_DROP (64 * KIB)       /* an unexpected body that is read and dropped */
#define LIMIT_HTTP_EARLY_REPLY (1 * MIB) /* read and dropped after a body that was too long */
#define LIMIT_HTTP_HEAD (16 * KIB)       /* of a reply that the static program reads */
#define LIMIT_EXECUTE_BODY (10 * MIB)    /* of POST /execute */
#define LIMIT_ARTIFACTS_LISTED 1000      /* by one GET /v1/artifacts */
#define LIMIT_UPLOAD_BYTES (512 * MIB)   /* of one uploaded file */
#define LIMIT_UPLOADS 10000              /* files of one tenant */
#define LIMIT_CHAT_HISTORY (1 * MIB)     /* of what was said in a session: the newest */
#define LIMIT_CONTAINERS 1000            /* of one tenant, expired ones too: those go first */
#define LIMIT_CONTAINER_FILES 1000       /* of one container that have an id */
#define LIMIT_FILE_IDS 50                /* uploaded files that a container begins with */
#define LIMIT_MULTIPART_NAME 1024        /* bytes of a file's name */
#define LIMIT_MULTIPART_FIELD (16 * KIB) /* the value of a field that is not a file */
#define LIMIT_MULTIPART_PARTS 64
#define LIMIT_EXECUTE_FILES 1000    /* that come with it */
#define LIMIT_TLS_FILE (256 * KIB)  /* a certificate with its chain, or a key */
#define LIMIT_LOG_BYTES (16 * MIB)  /* daemon.log is rotated above this size */
#define LIMIT_REPLY_JSON (64 * MIB) /* a reply of the daemon that a client reads whole */

/* MCP */
#define LIMIT_MCP_LINE (17 * MIB)           /* one message: a JSON body and its frame */
#define LIMIT_MCP_ANSWER (64 * MIB)         /* one that we send */
#define LIMIT_MCP_CALLS 128                 /* of one connection at once */
#define LIMIT_MCP_RESOURCE (4 * MIB)        /* a file that is read as a resource */
#define LIMIT_MCP_PICTURES 4                /* of one result */
#define LIMIT_MCP_PICTURE_TEXT (700 * 1000) /* all of them as base64: clients refuse 1 MB */
#define LIMIT_MCP_VALUES (200 * 1000)       /* of a cell in structuredContent, pictures apart */
#define LIMIT_MCP_SESSIONS 4096             /* conversations over HTTP: Mcp-Session-Id */
#define LIMIT_MCP_KEY_SESSIONS 256 /* of one key; then the one that was idle longest is removed */
#define LIMIT_MCP_STREAMS 64       /* answers of one that are kept to be asked for again */
#define LIMIT_MCP_REPLAY (8 * MIB) /* and their bytes */
#define LIMIT_MCP_REPLAY_ALL (32 * MIB) /* and those of all of them */
#define LIMIT_MCP_BACKLOG (64 * KIB)    /* unread by a client: progress is left out then */
#define MCP_PROGRESS_FIRST_MS 1000      /* what takes longer says so by then */
#define MCP_PROGRESS_MS 5000            /* and again after these */
#define MCP_STREAM_MS 1000              /* a call that is not answered by then becomes a stream */
#define MCP_BEAT_MS 15000               /* between signs of life on a stream */
#define MCP_IDLE_MS 3600000             /* a conversation without a message */

/* the model server, and responses */
#define LIMIT_UPSTREAM_EVENT                                                                       \
    (8 * MIB)                            /* one event of an answer, or an answer that is no stream \
                                          */
#define LIMIT_UPSTREAM_ERROR (16 * KIB)  /* what is read of an error's body */
#define LIMIT_UPSTREAM_CALLS 1024        /* at once */
#define LIMIT_UPSTREAM_WAITING (4 * MIB) /* unread by the broker: nothing more is read then */
#define UPSTREAM_TRIES 3                 /* of one request, before the first byte of an answer, */
#define UPSTREAM_FIRST_MS 30000          /* and the time for all of them */
#define UPSTREAM_PAUSE_MS 250            /* before the second try; doubled before the third */
#define LIMIT_AGENT_TURNS 32             /* answers of the model in one response */
#define LIMIT_AGENT_CALLS 64             /* tool calls in one of them */
#define LIMIT_AGENT_TEXT (8 * MIB)       /* text and arguments in one of them */
#define LIMIT_AGENT_TOLD (32 * KIB)      /* of a call's output that the model reads */
#define LIMIT_AGENT_HISTORY (32 * MIB)   /* the messages of one request to the model */
#define LIMIT_RESPONSE_UNREAD (1 * MIB)  /* events that a client has not read: the model waits */
#define LIMIT_RESPONSE_READ (LIMIT_RESPONSE_UNREAD / 4) /* and goes on at these */
#define LIMIT_RESPONSES 1000                            /* stored ones of a tenant */
#define LIMIT_RESPONSES_ACTIVE 512                      /* at once, in all, */
#define LIMIT_RESPONSES_TENANT 256                      /* and of one tenant */
#define LIMIT_RESPONSE_LOGS (8 * MIB)                   /* output of the code of one, that it has */
#define LIMIT_CONVERSATION (16 * MIB) /* of stored responses that one goes on from */
#define LIMIT_CHATS_TENANT 256        /* messages of one tenant that are being answered */
#define LIMIT_CHAT_LOG (16 * MIB)     /* what the code of one message showed, that its reply has */
#define RESPONSE_KEEP_MS (30ULL * 24 * 3600 * 1000) /* how long one is stored */

/* Docker */
#define LIMIT_DOCKER_REPLY (4 * MIB)        /* a reply, or a line of one that goes on */
#define LIMIT_DOCKER_VOLUME (256 * MIB)     /* the warden and its drivers */
#define LIMIT_DOCKER_LAYERS 128             /* of an image that is pulled, as Docker has it */
#define LIMIT_DOCKER_LAYER LIMIT_MEMORY_MAX /* the bytes that one says it has */
#define LIMIT_DOCKER_SHM (64 * MIB)         /* /dev/shm of a container, or its disk */
#define LIMIT_DOCKER_GROUPS 4096            /* folders in which a container's group is looked for */
#define LIMIT_IMAGE_NAME 512                /* bytes: registry, name, tag and digest */

/* files and listings */
#define LIMIT_OUTPUT_FILES 1000   /* fetched by --out in one run */
#define LIMIT_LIST_ENTRIES 100000 /* entries of one listing */
/* Kernel memory of one box that no control group counts (warden/kernel_memory.c). */
#define LIMIT_BOX_TCP_SOCKETS 3000        /* 4 KB each */
#define LIMIT_BOX_UDP_SOCKETS 256         /* 8 KB each: a datagram that waits, or is gathered */
#define LIMIT_BOX_TIME_WAIT 20000         /* 0.25 KB each */
#define LIMIT_BOX_FILE_LOCKS 8192         /* 0.2 KB each */
#define LIMIT_BOX_OPEN_FILES 32768        /* 0.2 KB each, for a lock whose taker is gone */
#define LIMIT_BOX_MORE_FILES 5120         /* for each so many bytes of memory one more of them */
#define LIMIT_BOX_KERNEL_GROWTH (2 * MIB) /* of the machine, after which locks are counted */
#define LIMIT_BOX_FILES_GROWTH (8 * MIB)  /* the same for open and mapped files */
#define LIMIT_BOX_HIDDEN_GROWTH                                                    \
    (32 * MIB)              /* in a container, beside a process that hides its own \
                             */
#define LIMIT_TREE_DEPTH 64 /* folders below /tmp/output that are looked into */

/* timeouts, in milliseconds */
#define BRINGUP_PATIENCE_MS 20000 /* a box that is not ready by then has failed */
#define HTTP_IDLE_MS 600000       /* a connection without progress and without a request */
#define HTTP_HEAD_MS 30000        /* for the whole head of a request */
#define HTTP_KEEP_MS 75000        /* between two requests of a connection over TCP */
#define HTTP_BODY_MS 600000       /* for a body that is collected, the whole of it */
#define KEPT_REPLY_MS                                                                       \
    UINT64_C(86400000)              /* for how long a reply is kept for its Idempotency-Key \
                                     */
#define DAEMON_PATIENCE_MS 60000    /* of a client, until a daemon that starts or stops is there */
#define RECONNECT_PATIENCE_MS 30000 /* of a client, until a broker that went away is back */
#define RUN_PATIENCE_MS 1000        /* of `bailey run`, until a daemon says that it takes the run */
#define STOP_PATIENCE_MS 5000       /* for the broker to stop, after the grace of a stop */
#define EGRESS_HEAD_MS 30000        /* a caller of the proxy has said all that it wants */
#define EGRESS_DIAL_MS 10000        /* one address answers, or the next one is tried */
#define EGRESS_IDLE_MS 300000       /* a tunnel in which nothing moves is closed */
#define EGRESS_LEAVE_MS 2000        /* for a caller to read why it was refused */
#define DOCKER_HELLO_MS 10000       /* a Docker that is there says which it is */
#define DOCKER_CALL_MS 60000        /* one call of Docker's */
#define HOST_MAKE_MS 1800000        /* for a provider host to make a box: */
#define DOCKER_PULL_MS HOST_MAKE_MS /* an image may have to be pulled */
#define DOCKER_PULL_TELL_MS 200     /* between two reports of its progress */
#define HOST_BRINGUP_MS 30000       /* a box that was started says that it is ready */
#define HOST_ATTACH_MS 60000        /* the stream to it is opened */
#define HOST_LEAVE_MS 10000         /* boxes are removed before the provider host leaves */
#define DOCKER_LOOK_MS 250          /* a Docker that is not there is looked for: first pause, */
#define DOCKER_LOOK_MAX_MS 4000     /* which doubles up to this one */
#define PORT_CONNECT_MS 10000       /* for a server in a box to accept a connection */
#define KILL_PATIENCE_MS 10000      /* a warden's, for telling the end of what was killed */
#define KILL_OUTPUT_MS 30000        /* and this long, while the last output comes */

#endif
