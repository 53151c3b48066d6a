package io.ackmesh.conformance;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * One scenario file. What it may say is in conformance/README.md; the runners of the other
 * languages have the same steps under the same names.
 */
final class Scenario {
  /** One step; it reads what it says out of the fields. */
  @FunctionalInterface
  interface Step {
    void run(World world, Fields fields) throws Exception;
  }

  private static final Map<String, Step> STEPS =
      Map.ofEntries(
          Map.entry("publish", Publishing::publish),
          Map.entry("publish_stream", Publishing::publishStream),
          Map.entry("recommend", Publishing::recommend),
          Map.entry("crash", Publishing::crash),
          Map.entry("open", Subscribing::open),
          Map.entry("change", Subscribing::change),
          Map.entry("receive", Receiving::receive),
          Map.entry("ack", Answering::ack),
          Map.entry("nack", Answering::nack),
          Map.entry("extend", Answering::extend),
          Map.entry("notice", Subscribing::notice),
          Map.entry("end", Subscribing::end),
          Map.entry("break", Subscribing::breakOff),
          Map.entry("ended", Subscribing::ended));

  private final Duration patience;
  private final int failsAt;
  private final String failsWith;
  private final List<JsonObject> steps;

  private Scenario(JsonObject file) {
    Fields fields = new Fields(file);
    fields.text("about");
    patience = Duration.ofMillis(fields.number("patience_ms", 20_000));
    failsAt = fields.number("fails_at", 0);
    failsWith = fields.text("fails_with", "");
    fields.has("steps");
    steps = file.getAsJsonArray("steps").asList().stream().map(e -> e.getAsJsonObject()).toList();
    fields.allRead();
  }

  /** Reads a file; run takes the place of ${run}, so that its topics are its own. */
  static Scenario load(Path file, String run) throws IOException {
    String text = Files.readString(file).replace("${run}", run);
    return new Scenario(JsonParser.parseString(text).getAsJsonObject());
  }

  /** The step that fails, from 1; of files in conformance/wrong only. */
  int failsAt() {
    return failsAt;
  }

  /** A part of the reason why it fails; of files in conformance/wrong only. */
  String failsWith() {
    return failsWith;
  }

  /**
   * Does all steps, and then ends in order the streams that are left. A failure of that ending
   * counts as a step behind the last.
   */
  void run(Mesh mesh) throws StepException {
    try (World world = new World(mesh, patience)) {
      for (int i = 0; i < steps.size(); i++) {
        run(world, i + 1, steps.get(i));
      }
      for (MeshStream left : world.openStreams()) {
        JsonObject end = new JsonObject();
        end.addProperty("do", "end");
        end.addProperty("stream", left.name());
        run(world, steps.size() + 1, end);
      }
    }
  }

  private static void run(World world, int number, JsonObject step) throws StepException {
    Fields fields = new Fields(step);
    String action = fields.text("do", "?");
    try {
      if (!STEPS.containsKey(action)) {
        throw new Failed("there is no step of that name");
      }
      STEPS.get(action).run(world, fields);
      fields.allRead();
    } catch (Exception why) { // whatever it is, the step has failed
      throw new StepException(number, action, why);
    }
  }
}
