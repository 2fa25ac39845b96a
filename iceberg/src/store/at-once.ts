/**
 * Works on up to `limit` items at the same time, and gives what came of each in the items' order. After one has failed
 * none is begun; rejected with that failure once those under way have ended, so that nothing goes on unseen.
 */
export async function mapAtOnce<Item, Result>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = []
  const failures: unknown[] = []
  // All workers take from the one iterator.
  const entries = items.entries()
  const worker = async (): Promise<void> => {
    for (const [at, item] of entries) {
      if (failures.length > 0) return
      try {
        results[at] = await work(item)
      } catch (error) {
        failures.push(error)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker))
  if (failures.length > 0) throw failures[0]
  return results
}
