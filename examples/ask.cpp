/* ask.cpp - C++17: objects that close what they opened, errors as exceptions: ask_cpp MODEL PICTURE QUESTION...
 *
 * The questions are one conversation: each is asked with those before it and their answers, which the session keeps. */
#include <saccade/saccade.h>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace saccade {

class error : public std::runtime_error {
public:
    error(sac_status status, const sac_error &err) : std::runtime_error(err.text), status(status) {}
    const sac_status status;
};

template <class Call> void check(Call call) {
    sac_error err;
    if (sac_status st = call(&err); st != SAC_OK) throw error(st, err);
}

class model {
public:
    explicit model(const char *path) {
        sac_model *opened = nullptr;
        check([&](sac_error *err) { return sac_model_open(&opened, path, nullptr, err); });
        handle.reset(opened);
    }
    const sac_model *get() const { return handle.get(); }

private:
    struct closer {
        void operator()(sac_model *m) const { sac_model_free(m); }
    };
    std::unique_ptr<sac_model, closer> handle;
};

class conversation { // its model must outlive it
public:
    explicit conversation(const model &m) {
        sac_session *created = nullptr;
        check([&](sac_error *err) { return sac_session_create(&created, m.get(), nullptr, err); });
        handle.reset(created);
    }

    std::string ask(const std::string &question, const char *picture = nullptr) {
        turns.push_back({"user", question, picture ? picture : ""});
        sac_result result;
        check([&](sac_error *err) {
            std::vector<sac_part> parts;
            std::vector<sac_message> messages;
            parts.reserve(2 * turns.size()); // the messages point into it
            for (const turn &t : turns) {
                sac_message message{};
                message.role = t.role;
                message.parts = parts.data() + parts.size();
                if (!t.picture.empty()) {
                    sac_part part{};
                    part.kind = SAC_PART_IMAGE;
                    part.path = t.picture.c_str();
                    parts.push_back(part);
                    message.n_parts++;
                }
                sac_part part{};
                part.kind = SAC_PART_TEXT;
                part.text = t.text.c_str();
                parts.push_back(part);
                message.n_parts++;
                messages.push_back(message);
            }
            return sac_session_generate(handle.get(), messages.data(), messages.size(), nullptr, nullptr, &result, err);
        });
        turns.push_back({"assistant", {result.text, result.n_text_bytes}, ""});
        return turns.back().text;
    }

private:
    struct turn {
        const char *role;
        std::string text, picture;
    };
    struct closer {
        void operator()(sac_session *s) const { sac_session_free(s); }
    };
    std::unique_ptr<sac_session, closer> handle;
    std::vector<turn> turns;
};

} // namespace saccade

int main(int argc, char **argv) {
    if (argc < 4) {
        std::cerr << "usage: ask_cpp MODEL PICTURE QUESTION...\n";
        return 64;
    }
    try {
        saccade::model model(argv[1]);
        saccade::conversation conversation(model);
        for (int i = 3; i < argc; i++) std::cout << conversation.ask(argv[i], i == 3 ? argv[2] : nullptr) << '\n';
    } catch (const saccade::error &e) {
        std::cerr << "ask_cpp: " << e.what() << '\n';
        return sac_status_exit_code(e.status);
    }
}
