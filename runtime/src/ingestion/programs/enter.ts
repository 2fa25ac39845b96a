/** Enters a program's room for good: puts up the walls, and becomes the program. */
import { loadLibc } from '@sluice/engine/libc'
import { becomeProgram, type ProgramStart } from '@sluice/engine/program-walls'

becomeProgram(loadLibc(), JSON.parse(process.argv[2] ?? '') as ProgramStart)
