/** Which suites a change of a file would leave out though they have opened it. */
import { type Mutation, told } from '../mutations/mutation.ts'
import type { Recording } from './recording.ts'

/** For each suite, the files whose change makes it run. */
export type Rests = ReadonlyMap<string, ReadonlySet<string>>

export interface Judged {
  readonly mutation: Mutation
  /** Suites that have opened the file. */
  readonly openedBy: readonly string[]
  /** Those of them that would not run. */
  readonly leftOut: readonly string[]
}

export function judge(mutation: Mutation, { bySuite }: Recording, rests: Rests): Judged {
  const openedBy = [...bySuite].filter(([, files]) => files.has(mutation.file)).map(([name]) => name)
  return { mutation, openedBy, leftOut: openedBy.filter((name) => !rests.get(name)?.has(mutation.file)) }
}

export function affectedBy(file: string, rests: Rests): readonly string[] {
  return [...rests].filter(([, files]) => files.has(file)).map(([name]) => name)
}

export function toldMiss({ mutation, leftOut }: Judged): string {
  return `${told(mutation)} leaves out ${leftOut.join(', ')}`
}

/** Of all that was opened, which pairs of a suite and a file are not among what it rests on. */
export function gaps({ bySuite }: Recording, rests: Rests): readonly string[] {
  return [...bySuite].flatMap(([name, files]) =>
    [...files].filter((file) => !rests.get(name)?.has(file)).map((file) => `${name}: ${file}`),
  )
}
