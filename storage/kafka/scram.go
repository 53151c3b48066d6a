package kafka

import (
	"fmt"
	"sync"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// scramSource makes logins by SCRAM (RFC 5802, RFC 7677). They share what is
// dear to compute.
func (s SASL) scramSource() func() sarama.SCRAMClient {
	hash := scram.SHA256
	if s.Mechanism == MechanismSCRAM512 {
		hash = scram.SHA512
	}
	client := sync.OnceValues(func() (*scram.Client, error) { return hash.NewClient(s.User, s.Password, "") })
	return func() sarama.SCRAMClient { return &scramLogin{client: client} }
}

// scramLogin is one login.
type scramLogin struct {
	client       func() (*scram.Client, error)
	conversation *scram.ClientConversation
}

// Begin implements sarama.SCRAMClient. User and password are known already.
func (s *scramLogin) Begin(_, _, _ string) error {
	client, err := s.client()
	if err != nil {
		return fmt.Errorf("kafka: user or password cannot be used with SCRAM: %w", err)
	}
	s.conversation = client.NewConversation()
	return nil
}

// Step implements sarama.SCRAMClient.
func (s *scramLogin) Step(challenge string) (string, error) { return s.conversation.Step(challenge) }

// Done implements sarama.SCRAMClient.
func (s *scramLogin) Done() bool { return s.conversation.Done() }
