/**
 * Loaded into every process of tests, before the tests. A process whose event loop runs empty while a test waits, for a
 * signal's time for instance, or that a library ends then, has told nothing of the tests that had not begun, and ends
 * with 0. Here it is kept until its last test has ended; one that ends before that has failed.
 */
import { after } from 'node:test'

const LONG_MS = 2 ** 30

// The runner itself loads this, too.
if (process.env['NODE_TEST_CONTEXT'] !== undefined) {
  let isOver = false
  const alive = setInterval(() => undefined, LONG_MS)
  after(() => {
    isOver = true
    clearInterval(alive)
  })
  process.once('exit', () => {
    if (isOver) return
    console.error('the process ended before its last test')
    process.exitCode = 1
  })
}
