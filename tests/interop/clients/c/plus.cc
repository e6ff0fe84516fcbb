// plus.cc - bailey.h in C++: compiles with its warnings, links, and a box made in process answers.
#include <bailey.h>

#include <iostream>
#include <memory>
#include <string>

struct Closer {
    void operator()(bailey_engine *engine) const { bailey_close(engine); }
    void operator()(bailey_spec *spec) const { bailey_spec_free(spec); }
    void operator()(bailey_result *result) const { bailey_result_free(result); }
};

int main()
{
    bailey_error err{};
    bailey_engine *opened = nullptr;
    bailey_result *ended = nullptr;
    std::string text;

    if (bailey_open_local(&opened, &err) < 0) {
        std::cerr << err.text << "\n";
        return 1;
    }
    std::unique_ptr<bailey_engine, Closer> engine(opened);
    std::unique_ptr<bailey_spec, Closer> spec(bailey_spec_new());
    const char *const argv[] = {"cat", nullptr};
    bailey_spec_program(spec.get(), argv);
    bailey_spec_stdin(spec.get(), "from C++", 8);
    bailey_spec_on_output(
        spec.get(),
        [](void *ctx, int, const void *data, std::size_t length) {
            static_cast<std::string *>(ctx)->append(static_cast<const char *>(data), length);
        },
        &text);
    if (bailey_run(engine.get(), spec.get(), &ended, &err) < 0) {
        std::cerr << err.text << "\n";
        return 1;
    }
    std::unique_ptr<bailey_result, Closer> result(ended);
    std::cout << text << "\n";
    return bailey_result_exit_code(result.get());
}
