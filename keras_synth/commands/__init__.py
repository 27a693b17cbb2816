"""The commands of `keras-synth`: a module each, with `main(arguments, prog)`.

`keras_synth_command` lists them.
"""
