/**
 * Loaded into every process of tests, before the tests. A process whose event loop runs empty while a test waits, for a
 * signal's time for instance, or that a library ends then, has told nothing of the tests that had not begun, and ends
 * with 0. Here it is kept until its last test has ended; one that ends before that has failed, and so has one that
 * something a test began keeps from ending at all.
 */
import { after } from 'node:test'

const LONG_MS = 2 ** 30
/** After the last test: what the hooks of files have, to end servers for instance. */
const END_MS = Number(process.env['SLUICE_TEST_END_MS'] ?? 120_000)

// The runner itself loads this, too.
if (process.env['NODE_TEST_CONTEXT'] !== undefined) {
  let isOver = false
  const alive = setInterval(() => undefined, LONG_MS)
  after(() => {
    isOver = true
    clearInterval(alive)
    setTimeout(() => {
      console.error(
        `the process does not end after its last test; kept by ${process.getActiveResourcesInfo().join(', ')}`,
      )
      process.exit(1)
    }, END_MS).unref()
  })
  process.once('exit', () => {
    if (isOver) return
    console.error('the process ended before its last test')
    process.exitCode = 1
  })
}
