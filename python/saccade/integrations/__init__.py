"""Saccade as a model of other packages. Each module imports its package only when it is imported itself:

    saccade.integrations.lmms_eval     the class Saccade for lmms-eval ("--model saccade")
    saccade.integrations.vlmevalkit    the class Saccade for VLMEvalKit
    saccade.integrations.ray           captions and evaluation over Ray
"""
