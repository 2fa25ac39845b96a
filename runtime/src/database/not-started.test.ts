import assert from 'node:assert/strict'
import { test } from 'node:test'
import { notStarted } from './embedded-server.ts'

const ROOM = /no room to start/
const GIB = 1024 ** 3

/** A full disk keeps the server from saying so: its log lies there, too. */
test('a server that could not start for want of room is told of as such, whether it could say so or not', () => {
  for (const [said, freeBytes, isRoom] of [
    ['', 0, true],
    ['', 4096, true],
    ['LOG:  starting PostgreSQL', 0, true],
    ['FATAL:  could not write lock file "postmaster.pid": No space left on device', GIB, true],
    ['', GIB, false],
    ['', null, false],
    ['FATAL:  data directory "cluster" has wrong ownership', 0, false],
  ] as const) {
    for (const how of ['ended', 'late'] as const) {
      const error = notStarted(how, said, freeBytes)
      assert.equal(ROOM.test(error.message), isRoom, `${said} ${freeBytes}: ${error.message}`)
      assert.match(error.remedy ?? '', /free disk space|cp -a/i)
    }
  }
})
