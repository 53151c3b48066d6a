package io.ackmesh.conformance;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;

/** The fields of a JSON object. It remembers which were read, so that none is passed over. */
final class Fields {
  private final JsonObject object;
  private final Set<String> read = new HashSet<>();

  Fields(JsonObject object) {
    this.object = object;
  }

  /** Fails if there is a field that nobody has read. */
  void allRead() {
    for (String name : object.keySet()) {
      if (!read.contains(name)) {
        throw new Failed("there is no field " + name);
      }
    }
  }

  boolean has(String name) {
    read.add(name);
    return object.has(name);
  }

  private <T> T get(String name, Function<JsonElement, T> as, T otherwise) {
    return has(name) ? as.apply(object.get(name)) : otherwise;
  }

  String text(String name, String otherwise) {
    return get(name, JsonElement::getAsString, otherwise);
  }

  String text(String name) {
    String value = text(name, null);
    if (value == null) {
      throw new Failed("the field " + name + " is missing");
    }
    return value;
  }

  int number(String name, int otherwise) {
    return get(name, JsonElement::getAsInt, otherwise);
  }

  /** Null where there is none. */
  Long longOrNull(String name) {
    return get(name, JsonElement::getAsLong, null);
  }

  boolean flag(String name) {
    return get(name, JsonElement::getAsBoolean, false);
  }

  private <T> List<T> list(String name, Function<JsonElement, T> as) {
    List<T> list = new ArrayList<>();
    if (has(name)) {
      object.getAsJsonArray(name).forEach(e -> list.add(as.apply(e)));
    }
    return list;
  }

  List<String> texts(String name) {
    return list(name, JsonElement::getAsString);
  }

  List<Long> longs(String name) {
    return list(name, JsonElement::getAsLong);
  }

  /** Pairs of numbers. */
  List<List<Long>> pairs(String name) {
    return list(
        name,
        e -> List.of(e.getAsJsonArray().get(0).getAsLong(), e.getAsJsonArray().get(1).getAsLong()));
  }

  /** Objects, each of which is read to the end by the function. */
  <T> List<T> objects(String name, Function<Fields, T> as) {
    return list(
        name,
        e -> {
          Fields fields = new Fields(e.getAsJsonObject());
          T made = as.apply(fields);
          fields.allRead();
          return made;
        });
  }

  Map<String, String> map(String name) {
    Map<String, String> map = new LinkedHashMap<>();
    if (has(name)) {
      object.getAsJsonObject(name).asMap().forEach((k, v) -> map.put(k, v.getAsString()));
    }
    return map;
  }

  /** Fills a message from its JSON form. */
  void into(String name, Message.Builder message) {
    has(name);
    try {
      JsonFormat.parser().merge(String.valueOf(object.get(name)), message);
    } catch (InvalidProtocolBufferException e) {
      throw new Failed(name + ": " + e.getMessage());
    }
  }
}
