def a():
    return C(x=1)
def b():
    return a()
