/** The steps that a demo tells as it goes: a number, what was done, how long it took, and what came of it. */
let count = 0

export async function step<T>(what: string, run: () => Promise<T>, say: (result: T) => string = () => ''): Promise<T> {
  const start = performance.now()
  const result = await run()
  count += 1
  const seconds = ((performance.now() - start) / 1000).toFixed(2)
  console.log(`${String(count).padStart(2)}. ${what.padEnd(44)} ${seconds.padStart(6)} s  ${say(result)}`)
  return result
}
