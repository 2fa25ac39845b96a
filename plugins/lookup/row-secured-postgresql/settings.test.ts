import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseLogin } from './settings.ts'

test('a login is read from its URL alone, whatever the PG* variables say', () => {
  const socket = parseLogin('reader', 'postgresql://us%40er:p%2Fw@/data?host=/run/postgresql&port=5433')
  assert.deepEqual([socket.user, socket.database], ['us@er', 'data'])
  assert.equal(socket.config.host, '/run/postgresql')
  assert.equal(socket.config.port, 5433)
  assert.equal(socket.config.ssl, false)
  assert.equal((socket.config.password as () => string)(), 'p/w')
  const tcp = parseLogin('reader', 'postgres://u@[::1]:6000/d?sslmode=verify-full')
  assert.deepEqual([tcp.config.host, tcp.config.port, tcp.config.ssl], ['::1', 6000, { rejectUnauthorized: true }])
  assert.equal((tcp.config.password as () => string)(), '')
})

test('what is no login is refused, and the message holds nothing of it', () => {
  for (const url of [
    '',
    'nonsense',
    'postgresql://secret@/',
    'postgresql:///secret',
    'postgresql://secret@/d',
    'postgresql://secret@h/d?sslmode=maybe',
    'postgresql://secret@h/d?port=0',
  ]) {
    assert.throws(
      () => parseLogin('writer', url),
      (error: Error & { kind: string; details: unknown }) => {
        assert.equal(error.kind, 'CONFIG')
        assert.deepEqual(error.details, { pointer: '/writer' })
        return !error.message.includes('secret')
      },
      url,
    )
  }
})
