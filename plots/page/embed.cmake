# Files as arrays of bytes in C, and modules of JavaScript as one script for pages that are a single file.

# The text `text` as the values of an array: 0x0a,... in `out`.
function(embed_bytes text out)
    string(HEX "${text}" bytes)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(0x0a,)" "\\1\n    " bytes "${bytes}")
    set(${out} "${bytes}" PARENT_SCOPE)
endfunction()

# Modules, each behind those that it imports, as one script in `out`: a function each, which returns what the module
# exports. Pages that are opened from disk may not import files. Lines of comments are left out.
function(embed_modules out)
    set(all "\"use strict\";\nconst modules = {};\n")
    foreach(path IN LISTS ARGN)
        get_filename_component(name ${path} NAME)
        file(READ ${path} text)
        string(REGEX MATCHALL "\nexport [a-z ]*(const|function) [A-Za-z]+" exports "\n${text}")
        string(REGEX REPLACE "\n?export [a-z ]*(const|function) " "" exports "${exports}")
        string(REPLACE ";" ", " exports "${exports}")
        string(REGEX REPLACE "import ({[^}]*}) from \"./([a-z]+.js)\"" "const \\1 = modules[\"\\2\"]" text "${text}")
        string(REGEX REPLACE "\nexport " "\n" text "\n${text}")
        string(REGEX REPLACE "\n *//[^\n]*" "" text "${text}")
        if(text MATCHES "</script|<!--")
            message(FATAL_ERROR "${path}: this text would end the script of a page")
        endif()
        string(APPEND all "modules[\"${name}\"] = (() => {${text}return { ${exports} };\n})();\n")
    endforeach()
    set(${out} "${all}" PARENT_SCOPE)
endfunction()
