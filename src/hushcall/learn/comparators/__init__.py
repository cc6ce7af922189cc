"""The server's half of the rivals: other people's answers to the same question, on the same wire.

Each is built to be as good as its authors' protocol can be, and says what it needs that ours does not
(``mechanism.needs``): PEM is told k, RAPPOR is given the candidates, and PEM and TreeHist split the phones
into groups.
"""
