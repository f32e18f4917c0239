// Package interchange carries modes to and from the files of other agents: the custom
// modes of Roo Code and Kilo Code (.roomodes, custom_modes.yaml, .kilocodemodes, in YAML
// and in JSON) and the custom agents of GitHub Copilot (*.agent.md). It is used at design
// time only, by the commands modes import and modes export.
//
// A mode of another agent becomes one of ours like this (D80):
//
//	slug                       key; - becomes _
//	name                       displayName
//	roleDefinition, body       instructions[0]: who the model is comes first
//	customInstructions, rules  the instructions after it
//	whenToUse                  whenToUse, on one line; else made from the description
//	description                description; else the first sentence of the role
//	groups, tools              clientTools: the tools of 'aptix chat' that do the same
//
// Nothing is dropped in silence: whatever has no place here, is narrowed or had to be made
// up is a Note of the mode. Rights are never widened: a tool that has no counterpart is
// not replaced by a mightier one, and a group whose restriction cannot be enforced is not
// granted at all.
package interchange
