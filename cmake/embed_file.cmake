# cmake -DOUT=file.c -DIN=page.html -DHEADER=page.h -DNAME=serve_page -P embed_file.cmake: a file as a C array.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include \"${HEADER}\"\n\nconst unsigned char ${NAME}[] = {${bytes}0};\nconst size_t ${NAME}_bytes = sizeof ${NAME} - 1;\n")
