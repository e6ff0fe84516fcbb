// debug.mjs - E2B_DEBUG=true: see debug.py.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load } from './kit.mjs'

const { Sandbox } = await load('@e2b/code-interpreter')

test('the shared sandbox', async () => {
  const sandbox = await Sandbox.create()
  assert.equal((await sandbox.commands.run('echo hi')).stdout, 'hi\n')
  await sandbox.files.write('js.txt', 'text')
  assert.equal(await sandbox.files.read('js.txt'), 'text')
  assert.equal((await sandbox.runCode('6 * 7')).text, '42')
  assert.equal(await sandbox.isRunning(), true)
})
