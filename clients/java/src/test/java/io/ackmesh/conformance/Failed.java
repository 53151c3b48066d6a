package io.ackmesh.conformance;

import java.util.Objects;

/** Something is not as the scenario says. */
final class Failed extends RuntimeException {
  private static final long serialVersionUID = 1;

  Failed(String why) {
    super(why);
  }

  /** Fails unless two values are equal. */
  static void unlessSame(String what, Object got, Object want) {
    if (!Objects.equals(got, want)) {
      throw new Failed(what + " is " + got + ", not " + want);
    }
  }
}
