/** To be loaded before a program: what SLUICE_TEST_KERNEL_WITHOUT names is missing from its kernel, and from its children's. */
import { missWall } from '../../runtime/src/engine/child/seccomp.ts'
import { loadLibc } from '../../runtime/src/engine/libc.ts'

missWall(loadLibc(), process.env['SLUICE_TEST_KERNEL_WITHOUT'] === 'seccomp' ? 'seccomp' : 'landlock')
