"""A stop flag that a signal handler sets."""

import signal
import threading

from exposurekit.system.stop_signal import StopSignal


def test_a_signal_in_another_thread_ends_the_wait():
    stop_signal = StopSignal()
    before = signal.signal(signal.SIGUSR1, lambda *_: stop_signal.set())
    others = threading.Event()
    other = threading.Thread(target=others.wait)
    other.start()
    # The main thread's system call goes on, as it does if the signal arrives just before it.
    sending = threading.Timer(0.2, lambda: signal.pthread_kill(other.ident, signal.SIGUSR1))
    too_long = threading.Timer(30, lambda: None)
    try:
        sending.start()
        too_long.start()
        assert stop_signal.wait(60)
        assert too_long.is_alive()
    finally:
        too_long.cancel()
        others.set()
        other.join()
        signal.signal(signal.SIGUSR1, before)


def test_waiting_ends_when_set_or_in_time():
    stop_signal = StopSignal()
    assert not stop_signal.wait(0.01)
    stop_signal.set()
    assert stop_signal.wait(60)
    assert stop_signal.is_set
