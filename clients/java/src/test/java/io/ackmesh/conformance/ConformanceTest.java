package io.ackmesh.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The scenario files of conformance/, against a server that {@code make test-java} starts. */
class ConformanceTest {

  private static final Path FILES = Path.of("..", "..", "conformance");

  @TestFactory
  Stream<DynamicTest> scenarios() throws IOException {
    return files("scenarios").map(file -> DynamicTest.dynamicTest(name(file), () -> holds(file)));
  }

  @TestFactory
  Stream<DynamicTest> wrongScenariosFail() throws IOException {
    return files("wrong").map(file -> DynamicTest.dynamicTest(name(file), () -> fails(file)));
  }

  private static void holds(Path file) throws IOException, StepException {
    load(file).run(mesh());
  }

  /** It must fail, at the step and for the reason that it says. */
  private static void fails(Path file) throws IOException {
    Scenario scenario = load(file);
    StepException failed = assertThrows(StepException.class, () -> scenario.run(mesh()));
    assertEquals(scenario.failsAt(), failed.step(), failed.getMessage());
    assertFalse(scenario.failsWith().isEmpty(), "fails_with is missing");
    assertTrue(failed.getMessage().contains(scenario.failsWith()), failed.getMessage());
  }

  private static Stream<Path> files(String folder) throws IOException {
    try (Stream<Path> all = Files.list(FILES.resolve(folder))) {
      List<Path> files = all.filter(f -> f.toString().endsWith(".json")).sorted().toList();
      assertFalse(files.isEmpty(), "no scenarios in " + folder);
      return files.stream();
    }
  }

  private static String name(Path file) {
    return file.getFileName().toString().replace(".json", "");
  }

  private static Scenario load(Path file) throws IOException {
    return Scenario.load(file, "java-" + UUID.randomUUID());
  }

  private static Mesh mesh() {
    return new Mesh(env("ACKMESH_GRPC"), env("ACKMESH_HTTP"), env("ACKMESH_CONTROL"));
  }

  private static String env(String name) {
    String value = System.getenv(name);
    assertNotNull(value, name + " is not set: run it with make test-java");
    return value;
  }
}
