/**
 * Loaded into every process of tests, before the tests. A process whose event loop runs empty while a test waits, for a
 * signal's time for instance, or that a library ends then, has told nothing of the tests that had not begun, and ends
 * with 0. Here it is kept until its last test has ended; one that ends before that has failed, and so has one that
 * something a test began keeps from ending at all.
 *
 * The runner follows every promise of a test, so that it can say which test an error without a handler came from: a sixth
 * of the processor time of tests with many small steps. Here it follows timers, sockets and the like alone: what they
 * throw fails their test. A rejection that nothing takes fails the file in place of its test, and is told with its stack.
 */
import hooks from 'node:async_hooks'

const { createHook } = hooks
const withoutPromises: typeof createHook = (callbacks) =>
  createHook({ ...callbacks, trackPromises: false } as typeof callbacks)
// The runner takes `createHook` when it is loaded, and calls it when it has its first test or hook.
Object.assign(hooks, { createHook: withoutPromises })
const { after } = await import('node:test')
Object.assign(hooks, { createHook })

const LONG_MS = 2 ** 30
/** After the last test: what the hooks of files have, to end servers for instance. */
const END_MS = Number(process.env['SLUICE_TEST_END_MS'] ?? 120_000)

// The runner itself loads this, too.
if (process.env['NODE_TEST_CONTEXT'] !== undefined) {
  process.on('uncaughtExceptionMonitor', (error) => console.error('an error that nothing took:', error))
  process.on('unhandledRejection', (error) => console.error('a rejection that nothing took:', error))
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
