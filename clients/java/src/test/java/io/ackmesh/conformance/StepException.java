package io.ackmesh.conformance;

/** A step failed: which, counted from 1, and why. */
final class StepException extends Exception {
  private static final long serialVersionUID = 1;

  private final int step;

  StepException(int step, String action, Exception why) {
    super("step " + step + ", " + action + ": " + why.getMessage(), why);
    this.step = step;
  }

  int step() {
    return step;
  }
}
