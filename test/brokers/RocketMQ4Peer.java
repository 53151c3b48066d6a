import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Writes messages to RocketMQ with Apache's own client for Java: one that the client compresses (by which method says its
 * system property rocketmq.message.compressType), a batch, and one placed by its key.
 *
 * <p>Arguments: name server, topic.
 */
public class RocketMQ4Peer {
  public static void main(String[] args) throws Exception {
    String how = System.getProperty("rocketmq.message.compressType", "ZLIB");
    DefaultMQProducer producer = new DefaultMQProducer("peer");
    producer.setNamesrvAddr(args[0]);
    producer.setVipChannelEnabled(false);
    producer.start();
    try {
      Message large = new Message(args[1], "tag", "key", ("java " + how + " " + "again and ".repeat(1000)).getBytes());
      large.putUserProperty("mine", how);
      check(producer.send(large));
      List<Message> batch = new ArrayList<>();
      for (int i = 0; i < 5; i++) {
        batch.add(new Message(args[1], ("java batch " + i).getBytes()));
      }
      check(producer.send(batch));
      SendResult placed = producer.send(new Message(args[1], "java placed".getBytes()),
          new org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash(), "order-17");
      check(placed);
      MessageQueue queue = placed.getMessageQueue();
      System.out.println("placed in " + queue.getBrokerName() + ":" + queue.getQueueId());
    } finally {
      producer.shutdown();
    }
  }

  private static void check(SendResult r) {
    if (r.getSendStatus() != SendStatus.SEND_OK) {
      throw new IllegalStateException("sent: " + r);
    }
  }
}
