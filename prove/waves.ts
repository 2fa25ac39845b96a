import type { Proof } from './proof.ts'
import { RUNTIME_SOURCES } from './runtime-sources.ts'
import { LEAST_ROWS, runWaves } from './waves/run.ts'

export const waves: Proof = {
  name: 'waves',
  proves:
    'Of products that are made of each other in layers over tables, a change reaches just those that are made of it, each once, and no other has an epoch, a job of the engine, a file in the lake or a write to its store; of large products that the guard proves, one row in a hundred takes a twentieth of a full wave’s rows at most, given to authors’ texts, written and stored; consistent reads see no wave half done; and a runtime that is killed in waves comes to the same end: the rows of the lake and of stores are those of views over views in the source.',
  costs:
    'about two hours for 300 products; with --products 100 --tables 12 --large 4 --minutes 27 half an hour on a machine that is busy with other things',
  options: [
    '--products N   so many (300)',
    '--tables N   so many (20)',
    '--layers N   so many (6)',
    '--rounds N   changes, each second one with kills (20)',
    '--large N   large products, each made of the one before (12)',
    `--rows N   of the table that those are made of, ${LEAST_ROWS} or more (120000)`,
    '--minutes N   no round begins after so many (600)',
  ],
  of: RUNTIME_SOURCES,
  run: runWaves,
}
